"""Decision sources: everything that may answer a View with a Decision (paper Section 3.2)."""
