"""Generators of local views: what a law is shown in training. None of them makes a label.

`rng` names every draw and `words` makes up vocabulary. `native` collects the views of training
episodes. `frames` holds the task side of a view and the scene that fills it, `situations` the eight
classes of the curriculum, `disguised` spatial views under another contract.
"""
