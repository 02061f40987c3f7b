"""Programs that run, each under a guardian that ends all that it has started."""
