"""Generators of local views for the training of laws. None of them makes a label.

`rng` provides named random streams, `words` made-up vocabulary. `native` collects the views of
training episodes. `frames` holds the task side of a view and the scene that fills it, `situations`
the eight classes of the curriculum, `disguised` spatial views under another contract.
"""
