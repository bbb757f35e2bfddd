"""The decoding engine: batched decoding, greedy or sampled, free or constrained by a grammar.

Read in this order:

* `request` (what goes in and comes out), `engine` (`Engine.generate`; a step is in `Engine._step`),
  `scheduler` (KV slots and batches), `sequence` (one request), `speculation` (n-gram drafts),
  `sampling` (noise and draws);
* `constraint/`: grammars, and the matcher that turns them into token masks;
* `backends/`: what runs the tokens; `model/` and `cuda/` are what the lean backend consists of;
* `memory`: shares of a GPU, out-of-memory errors, the garbage collector.

The package knows tokens and grammars, never views or swarms; torch is imported by the modules that
need it.
"""
