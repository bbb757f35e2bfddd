"""The decoding engine: batched decoding, greedy or sampled, free or constrained by a grammar.

Read in this order:

* `request` (prompts and completions), `engine` (`Engine.generate`; a step is in `Engine._step`),
  `scheduler` (KV slots and batches), `sequence` (one request), `speculation` (n-gram drafts),
  `sampling` (noise and draws);
* `constraint/`: grammars, and the matcher that turns them into token masks;
* `backends/`: run the model on tokens; `model/` and `cuda/` implement the lean backend;
* `memory`: shares of a GPU, out-of-memory errors, the garbage collector.

The package handles tokens and grammars, never views or swarms; only the modules that need torch
import it.
"""
