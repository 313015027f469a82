"""A run: the plan, the worker process that checks and times, and the session that drives it."""
