"""Commands about the installation, and templates for parts of your own.

Read `listing` (`waggle list`) and `doctor`, then `models` and `recipes`. `new` writes a law,
metric, substrate or worker from the texts in `starters`.
"""
