"""A fleet whose figures Prometheus keeps: past one dashboard's reach it asks the hosts, and is asked for them."""
