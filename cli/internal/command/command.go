// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package command is leat's command line. Each noun's commands are in a package of their own below.
// This package assembles them and maps their errors to an exit code.
package command

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/command/access"
	"github.com/leatdev/leat/cli/internal/command/adoption"
	"github.com/leatdev/leat/cli/internal/command/cluster"
	"github.com/leatdev/leat/cli/internal/command/fleet"
	"github.com/leatdev/leat/cli/internal/command/fleetsource"
	"github.com/leatdev/leat/cli/internal/command/hub"
	"github.com/leatdev/leat/cli/internal/command/manifests"
	"github.com/leatdev/leat/cli/internal/command/notifier"
	"github.com/leatdev/leat/cli/internal/command/people"
	"github.com/leatdev/leat/cli/internal/command/rollout"
	"github.com/leatdev/leat/cli/internal/command/tunnel"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/terminal"
	"github.com/leatdev/leat/internal/runtime/app"
)

// Params are the arguments that a process passes to its program.
type Params struct {
	Args      []string // without the program's name
	LookupEnv func(string) (string, bool)
	In        io.Reader
	Out, Err  io.Writer
}

// Run executes one command line and returns its exit code.
func Run(ctx context.Context, p Params) int {
	out, errs := terminal.NewWriter(p.Out), terminal.NewWriter(p.Err)
	defer func() { _, _ = out.Flush(), errs.Flush() }() // what they hold is the beginning of a character at most
	s := &session.Session{LookupEnv: p.LookupEnv, In: p.In, Out: out, Err: errs, Verbatim: p.Out}
	root := New(s)
	root.SetArgs(p.Args)
	root.SetIn(p.In)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return failure.ExitOK
	}
	f, ok := errors.AsType[*failure.Failure](err)
	if !ok {
		// Every command returns its own errors as failures, so this one is cobra's, about flags and
		// arguments.
		f = failure.Usage("%s", err.Error())
	}
	if f.Exit == failure.ExitUsage && f.Advice == "" {
		f.Advice = "Run " + cmd.CommandPath() + " --help."
	}
	f.Write(errs)
	return f.Exit
}

const about = `leat carries one Git commit to every cluster.

A hub mirrors Git repositories and sends each cluster what it should run; an agent in the cluster applies it. This
command is how people define what runs where, follow its state, and reach their clusters through the hub.

Pages that a text names, such as docs/guides/find.md, are in the repository: https://github.com/leatdev/leat.

Exit codes: 0 success, 1 failure, 2 wrong command line; of leat status also 3, something is wrong in the fleet.`

// New returns the root command.
func New(s *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "leat",
		Short: "Carry one Git commit to every cluster",
		Long:  about,
		Example: `  leat up                                     try it: a hub, a cluster and a demo on this machine
  leat login https://leat.example.com         use a hub
  leat apply -f fleet.yaml                    define what runs where
  leat get services                           see the state of it
  leat status                                 see what is wrong, and why
  leat wait service/shop --for=healthy        wait until it runs`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       app.Build().String(),
	}
	// As leat version prints it. The flag is defined here because cobra would also take -v for it.
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version, as leat version does")
	s.Bind(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Get going:"},
		&cobra.Group{ID: "fleet", Title: "Run things:"},
		&cobra.Group{ID: "cluster", Title: "Clusters:"},
		&cobra.Group{ID: "manifests", Title: "Manifests on this machine:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"start": {up(s), access.Login(s), access.Logout(s), access.Context(s), access.Project(s), access.UI(s)},
		"fleet": {
			fleet.Apply(s), fleet.Get(s), fleet.Status(s), fleet.History(s), fleet.Trace(s), fleet.Wait(s), fleet.Sync(s), fleet.Webhooks(s), fleet.Diff(s), fleet.Inventory(s), fleet.Metrics(s), fleet.Events(s),
			fleet.Prune(s), fleet.Pause(s), fleet.Resume(s), fleet.Delete(s), people.Create(s), people.Revoke(s), adoption.Import(s),
			fleet.Config(s),
			notifier.New(s), rollout.New(s), rollout.Rollback(s), fleetsource.New(s), fleetsource.Export(s),
		},
		"manifests": {manifests.Render(s), manifests.Lint(s), manifests.Explain(s)},
		"cluster":   {cluster.New(s), access.Kubeconfig(s), access.Token(s), people.Access(s), people.Audit(s), tunnel.Connections(s), tunnel.Sessions(s)},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.AddCommand(hub.Admin(s), hub.Keys(s), version(s))
	return root
}
