"""Jobs of many processes: what each rank writes into the job's folder, and the one report that is made of it."""
