"""One module per API class: its start states, and per tool the arguments that a live instance offers."""
