"""Tables of figures: `datasets` (what is measured on), `measures` (how), `tables` (rows × columns, one cell at a time).

In: a folder of image sets. Out: one `Cell` per row and column, as soon as it is done.
"""
