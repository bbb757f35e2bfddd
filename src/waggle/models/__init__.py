"""Named models: their sources, how they are fetched and how they are loaded.

Read `catalog` (the named models), `fetch` (download and convert), `vet` and `trial` (checks of a
foreign folder before it is loaded), `load` (model and tokenizer on a device), then `bare` (faster
loading of plain folders), `adapters` (LoRA) and `nano` (models built here). Nothing in this folder
depends on the decoding engine.
"""
