// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package app is the shell around a program: arguments, signals and exit codes, so that a main
// function is one call.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/leatdev/leat/internal/runtime/config"
)

// The exit codes of every program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main reads the configuration, calls run, and ends the process. The context of run ends at SIGINT
// or SIGTERM; a second signal ends the process at once. Exit codes: 0 when run returns nil (or only
// reports that its context was canceled by the signal), 1 when it returns another error, 2 when the
// configuration is wrong.
//
// If the first argument names one of the commands, Main runs that instead, with its configuration and
// the other arguments.
func Main(program string, cfg interface{ Bind(set *config.Set) }, run func(ctx context.Context) error, commands ...Command) {
	ctx, stop := untilSignal(context.Background())
	args := os.Args[1:]
	for _, command := range commands {
		if len(args) > 0 && args[0] == command.Name {
			program, cfg, run, args = program+" "+command.Name, command.Config, command.Run, args[1:]
			break
		}
	}
	set := config.FromOS(program)
	cfg.Bind(set)
	code := Execute(ctx, Params{
		Program: program, Args: args, Settings: set, Run: run, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	stop()
	os.Exit(code)
}

// Command is something else that a program does, named by its first argument.
type Command struct {
	// Name is one word.
	Name   string
	Config interface{ Bind(set *config.Set) }
	Run    func(ctx context.Context) error
}

// untilSignal returns a context that ends at the first signal. The signals already have their
// default effect again by then, so a second one ends the process. signal.NotifyContext restores the
// default effect only when its stop function is called, which is too late.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer cancel()
		defer signal.Stop(signals)
		select {
		case <-signals:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Params are the arguments of [Execute].
type Params struct {
	Program string
	// Args are the arguments without the program's name.
	Args []string
	// Settings are bound, but not parsed yet.
	Settings *config.Set
	Run      func(ctx context.Context) error
	Stdout   io.Writer
	Stderr   io.Writer
}

// Execute is [Main] without the process around it: it returns the exit code.
func Execute(ctx context.Context, params Params) int {
	switch err := params.Settings.Parse(params.Args); {
	case errors.Is(err, config.ErrHelp):
		return exitCode(params, params.Settings.Help(params.Stdout))
	case errors.Is(err, config.ErrVersion):
		_, err := fmt.Fprintf(params.Stdout, "%s %s\n", params.Program, Build())
		return exitCode(params, err)
	case err != nil:
		complain(params, err)
		return exitUsage
	}
	err := params.Run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return exitCode(params, err)
}

func exitCode(params Params, err error) int {
	if err != nil {
		complain(params, err)
		return exitFailed
	}
	return exitOK
}

// complain writes err to standard error. A failure to write is ignored, because there is nowhere
// else to report it.
func complain(params Params, err error) {
	_, _ = fmt.Fprintf(params.Stderr, "%s: %v\n", params.Program, err)
}
