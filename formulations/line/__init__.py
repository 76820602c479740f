"""Schedules from an order of ops: one after the other as early as lanes and bytes allow, and a search over orders."""
