"""Strict readers of the user's files: every record is counted, and every fault is reported with its file and line."""
