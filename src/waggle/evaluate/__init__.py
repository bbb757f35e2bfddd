"""Measuring swarms: metrics of records, late counterevidence, statistics, plans and runners."""
