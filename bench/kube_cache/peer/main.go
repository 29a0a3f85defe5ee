// Command peer is the other side of the cache benchmark: it fills etcd with a cluster's worth of objects, writes to the
// API server at a fixed rate, and keeps the same objects in client-go's informers, measured as the C++ program measures
// itself. It also writes the fixtures of the decoder tests, since it has the API's Go types at hand.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string) error{
		"fill": fill, "write": write, "informer": informer, "fixtures": fixtures,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peer fill|write|informer|fixtures [flag...]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "peer %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
