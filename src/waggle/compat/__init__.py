"""Servers for other programs: `openai_server` (chats over HTTP) and `batcher` behind it."""
