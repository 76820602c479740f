"""What is written for people and devices: timelines and pictures."""
