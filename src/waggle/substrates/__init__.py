"""Worlds and their adapters; each turns one benchmark into bounded anonymous local views."""
