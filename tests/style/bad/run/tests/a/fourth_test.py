#!/usr/bin/env python3 BAD
