"""Programs that answer one question each about StatsNet, with the tables that they made. They call the product."""
