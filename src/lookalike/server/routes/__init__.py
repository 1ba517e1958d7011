"""One file for each noun of the API. Handlers translate: what is done is done by `Collection`."""
