"""Two declared families of local graph problems, none of which mirrors a transfer task.

Reading order: `play` (a problem on a small graph: views and updates), `far` and `near` (the
problems, each with its local rule and its check), `families` (which problems are trained on, which
are held out, and the labelled views), `manifest` (the declaration, with a digest). The wordings of
the goals are in `goals.toml`.
"""
