// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat is Leat's command line. See leat --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/services/agent"
)

func main() {
	agent.ServeRender(os.Args[1:]) // leat up runs the agent in this process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the command in an orderly way, a second one immediately
	os.Exit(command.Run(ctx, command.Params{
		Args: os.Args[1:], LookupEnv: os.LookupEnv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
	}))
}
