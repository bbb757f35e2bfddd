"""What one agent knows: compass, memory, navigation."""
