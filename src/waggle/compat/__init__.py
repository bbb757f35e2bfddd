"""Servers for other programs: `openai_server` (the chat-completions API), `batcher` behind it."""
