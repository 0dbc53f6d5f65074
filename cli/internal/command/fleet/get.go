// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

// Get is `leat get`.
func Get(s *session.Session) *cobra.Command {
	g := get{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Show clusters, repositories, services, projects, users, roles, access bindings, identity providers, trust rules, configuration sets, notifiers, global services, rollout policies, tokens or sessions",
		Long: `Show clusters, repositories, services, projects, users, access bindings, identity providers, API tokens or sessions,
with their state.

Clusters, repositories and services are those of the command's project (leat project), or of all projects with -A.

As YAML each object is a document that leat apply accepts. As JSON a listing is an object with "items", and a
single object is itself. With --watch the listing is followed by every change; as JSON that is one object a line.

A single cluster is shown with its nodes and their resources, its pods by phase, the latest warnings, and what its agent
can do. A single service is shown with its drift, its tests and its dry run.

A list can be narrowed: --filter is a row of terms, all of which have to be true, such as
'phase=Failed cluster.label.region=eu checkout', and the other flags are short for terms. docs/guides/find.md lists the
fields of each kind; a field that does not exist is answered with those that do. --sort orders the list. Behind a list of
services with one --commit, the standard error has how long that commit took to be applied and to become healthy.

Tokens and sessions are shown without their secrets, and are not documents; their names are those of their people. Users who are
not administrators see only what concerns themselves.`,
		Example: `  leat get services
  leat get cluster berlin
  leat get service shop -o yaml
  leat get repositories -o json | jq '.items[].status.phase'
  leat get services --watch
  leat get services --phase Failed,Degraded --cluster-label region=eu --sort severity
  leat get services -A --filter 'commit=4f2c1e0 synced=false'
  leat get services --project shop
  leat get services --all-projects
  leat get tokens ada
  leat get sessions`,
		Args:              g.args,
		ValidArgsFunction: g.complete,
		RunE:              func(cmd *cobra.Command, _ []string) error { return s.Fail(g.run(cmd.Context())) },
	}
	cmd.Flags().VarP(&g.format, "output", "o", "how to print it")
	cmd.Flags().BoolVarP(&g.allProjects, "all-projects", "A", false, "those of all projects, with the project of each")
	cmd.Flags().BoolVar(&g.members, "members", false, "of a global service: the clusters that it selects, with the state of each")
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "then print every change, until interrupted")
	g.selection.bind(cmd.Flags())
	g.selection.complete(cmd)
	return cmd
}

// kindGlobalService is the kind of templates of services.
const kindGlobalService = "GlobalService"

type get struct {
	session *session.Session
	format  show.Format
	watch   bool
	// members shows the clusters of a global service alone.
	members bool
	// allProjects lists objects of all projects instead of one.
	allProjects bool
	target      target // name is empty for all
	// selection narrows and orders a listing.
	selection selection
}

// args parses KIND, KIND NAME or KIND/NAME.
func (g *get) args(_ *cobra.Command, args []string) (err error) {
	switch len(args) {
	case 0:
		return errors.New("say what to get: " + strings.Join(document.Kinds(), ", "))
	case 1, 2:
	default:
		return errors.New("want one name at most")
	}
	if strings.Contains(args[0], "/") && len(args) == 1 {
		g.target, err = parseTarget(g.session, args[0])
		return err
	}
	switch {
	case isToken(args[0]):
		g.target.kind = kindToken
	case isSession(args[0]):
		g.target.kind = kindSession
	default:
		g.target.kind, err = parseKind(args[0])
	}
	if len(args) == 2 {
		g.target.name = g.session.Reference(g.target.kind, args[1])
	}
	return err
}

func (g *get) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return document.Kinds(), cobra.ShellCompDirectiveNoFileComp
	case 1:
		if kind, ok := document.Kind(args[0]); ok {
			return completeNames(cmd, g.session, kind, ""), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (g *get) run(ctx context.Context) error {
	c, err := g.session.Client()
	if err != nil {
		return err
	}
	isSelected := !g.selection.isEmpty()
	switch {
	case isSelected && g.target.name != "":
		return failure.Usage("a filter selects from a list: leave the name out, or the filter")
	case isSelected && (g.target.kind == kindToken || g.target.kind == kindSession):
		return failure.Usage("there is no filter for tokens and sessions")
	case isSelected && g.watch:
		return g.followQuery(ctx, c)
	case g.watch && g.target.kind == kindToken:
		return errors.New("tokens cannot be watched")
	case g.watch && g.target.kind == kindSession:
		return errors.New("sessions cannot be watched")
	case g.watch:
		return g.follow(ctx, c)
	}
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	switch {
	case g.target.kind == kindToken:
		return g.tokens(ctx, c)
	case g.target.kind == kindSession:
		return g.sessions(ctx, c)
	case g.target.name != "":
		return g.one(ctx, c)
	}
	objects, err := g.list(ctx, c)
	if err != nil {
		return err
	}
	if len(objects) == 0 && isSelected && g.format == show.Table {
		_, err := fmt.Fprintf(g.session.Err, "The filter selects no %s%s.\n", plural(g.target.kind), g.where())
		return err
	}
	if len(objects) == 0 && g.format == show.Table {
		_, err := fmt.Fprintf(g.session.Err, "There are no %s%s yet.\n", plural(g.target.kind), g.where())
		return err
	}
	if g.format == show.Table {
		if err := g.table().Print(g.session.Out, time.Now(), objects); err != nil {
			return err
		}
		return g.printArrival(ctx, c)
	}
	return show.Objects(g.session.Out, g.format, g.session.Style(g.session.Out), time.Now(), g.target.kind, objects)
}

// list returns the objects of the listing, in their order.
func (g *get) list(ctx context.Context, c *client.Client) ([]*fleetv1.Document, error) {
	if !g.selection.isEmpty() {
		query, err := g.query()
		if err != nil {
			return nil, err
		}
		return c.Query(ctx, query)
	}
	objects, err := c.All(ctx, g.target.kind, g.project())
	if g.allProjects {
		slices.SortStableFunc(objects, byProject)
	}
	return objects, err
}

// byProject orders objects by their project.
func byProject(a, b *fleetv1.Document) int {
	return cmp.Compare(
		cmp.Or(document.Metadata(a).GetProject(), objectname.Default), cmp.Or(document.Metadata(b).GetProject(), objectname.Default))
}

// project returns the project whose objects are listed, or "" for all.
func (g *get) project() string {
	if g.allProjects || !fleetdoc.InProject(g.target.kind) {
		return ""
	}
	return g.session.Project()
}

// where returns the project of a listing for a message, if it is not the default one.
func (g *get) where() string {
	if project := g.project(); project != "" && project != objectname.Default {
		return " in project " + project
	}
	return ""
}

// table returns the empty table of the listing.
func (g *get) table() *show.Rows {
	style := g.session.Style(g.session.Out)
	if g.allProjects && fleetdoc.InProject(g.target.kind) {
		return show.NewProjectsTable(style, g.target.kind)
	}
	return show.NewTable(style, g.target.kind)
}

func plural(kind string) string {
	for _, word := range document.Kinds() {
		if found, _ := document.Kind(word); found == kind {
			return word
		}
	}
	return kind
}

func (g *get) one(ctx context.Context, c *client.Client) error {
	object, err := c.One(ctx, g.target.kind, g.target.name)
	if err != nil {
		return err
	}
	out, style := g.session.Out, g.session.Style(g.session.Out)
	if g.target.kind != kindGlobalService || g.format == show.YAML {
		return show.Object(out, g.format, style, time.Now(), object)
	}
	members, err := c.Members(ctx, g.target.name)
	if err != nil {
		return err
	}
	if g.format == show.Table {
		for _, m := range members {
			m.Cluster = g.session.Here("Cluster", m.GetCluster(), g.target.name)
		}
	}
	if g.members {
		return show.Members(out, g.format, style, time.Now(), members)
	}
	if err := show.Object(out, g.format, style, time.Now(), object); err != nil || g.format != show.Table || len(members) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return show.Members(out, g.format, style, time.Now(), members)
}

// follow prints the current objects and then every change. It ends without an error only if the
// user interrupts it.
func (g *get) follow(ctx context.Context, c *client.Client) error {
	rows := g.table()
	err := c.Follow(ctx, &fleetv1.WatchRequest{Kind: g.target.kind, Name: g.target.name, Project: g.project()}, func(change *fleetv1.WatchResponse) error {
		kind, name := document.Identify(change.GetDocument())
		if kind != g.target.kind || g.target.name != "" && !g.target.names(name) {
			return nil
		}
		return g.printChange(rows, change, name)
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (g *get) printChange(rows *show.Rows, change *fleetv1.WatchResponse, name string) error {
	out := g.session.Out
	switch {
	case change.GetDeleted() && g.format == show.Table:
		rows.Forget(name)
		_, err := fmt.Fprintf(out, "%s/%s deleted\n", strings.ToLower(g.target.kind), name)
		return err
	case change.GetDeleted():
		return nil
	case g.format == show.JSON:
		return document.WriteJSONLine(out, change.GetDocument())
	case g.format == show.YAML:
		if _, err := fmt.Fprintln(out, "---"); err != nil {
			return err
		}
		return document.WriteYAML(out, change.GetDocument())
	default:
		return rows.Follow(out, time.Now(), change.GetDocument())
	}
}

// orMissing returns err, or a failure that names the object if the hub answered that it does not exist.
func orMissing(err error, t target) error {
	if connect.CodeOf(err) != connect.CodeNotFound {
		return err
	}
	return failure.New("there is no "+t.String(), "leat get "+plural(t.kind)+" lists the existing ones.")
}

// getService returns a service by its name.
func getService(ctx context.Context, c *client.Client, name string) (*fleetv1.Service, error) {
	response, err := fleetcalls.Get[*fleetv1.Service](ctx, c, name)
	if err != nil {
		return nil, orMissing(err, serviceTarget(name))
	}
	return response, nil
}
