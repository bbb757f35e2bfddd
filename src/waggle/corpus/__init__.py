"""What a law is trained on: views, labels and transitions, the same for the same seeds.

Read `settings` first. `curriculum` makes the views of the decision corpus with the generators of
`views/`, `teacher` labels them, `transitions` plays episodes of a law, and `store` keeps all three
as files; `datasheet` counts what is there. `harvest` makes a large labelled corpus in one go.
`problems/` holds graph problems, whose episodes are further views.
"""
