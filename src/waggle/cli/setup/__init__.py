"""Commands about the installation, and starts of one's own parts.

Read `listing` (`waggle list`) and `doctor`, then `models` and `recipes`. `new` writes a law,
metric, substrate or worker from the texts in `starters`.
"""
