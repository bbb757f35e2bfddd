"""Training data of laws: views, labels and transitions, determined by their seeds.

Read `settings` first. `curriculum` makes the views of the decision corpus with the generators of
`views/`, `teacher` labels them, `transitions` plays episodes of a law, and `store` keeps all three
as files; `datasheet` counts their contents. `harvest` makes a large labelled corpus in one pass.
`problems/` holds graph problems, whose episodes give further views.
"""
