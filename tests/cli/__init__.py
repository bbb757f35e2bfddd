"""The command line, in process; a few real processes are in test_main.py."""
