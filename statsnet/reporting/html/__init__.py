"""Reports as pages: a file that opens from a mail, with pictures and the tables behind them."""
