"""Tools that inspect a checkout of the repository; not part of the package."""
