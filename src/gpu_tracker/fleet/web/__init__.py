"""How the agent and the dashboard serve over HTTP: who may ask, from where, in which time, and how it ends."""
