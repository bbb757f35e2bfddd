"""The command line, in process; a few real subprocesses are in test_process.py."""
