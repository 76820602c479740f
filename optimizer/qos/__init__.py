"""`hexloom qos`: a stream that must answer in time, and work of lower rank that fills what it leaves."""
