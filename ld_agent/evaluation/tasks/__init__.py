"""What `ld-agent eval` measures: one file a task."""
