// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/filter"
)

// selection are the flags that select and order what a listing shows.
type selection struct {
	filter, labels, clusterLabels, order string
	// fields are the values of flags that are short for a term of the filter.
	fields map[string]*string
}

// shortForms are the flags that are short for a field of the filter, with what they are for.
func shortForms() [][2]string {
	return [][2]string{
		{"phase", "those in one of these phases, such as Failed,Degraded"},
		{"reason", "those with one of these reasons, such as APPLY_REJECTED"},
		{"repository", "services with a source in one of these repositories"},
		{"commit", "services that have this commit, or are to have it"},
		{"version", "services that have this version, or are to have it; clusters whose agent has it"},
	}
}

func (f *selection) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.filter, "filter", "",
		"those of which the filter is true, such as 'phase=Failed since>1h checkout' (docs/guides/find.md)")
	flags.StringVarP(&f.labels, "selector", "l", "", "those with these labels, such as app=web,tier in (a,b),!canary")
	flags.StringVar(&f.clusterLabels, "cluster-label", "", "services in clusters with these labels, and such clusters")
	flags.StringVar(&f.order, "sort", "", "order by name, since, severity, age or cluster; -since is the reverse")
	f.fields = map[string]*string{}
	for _, form := range shortForms() {
		f.fields[form[0]] = flags.String(form[0], "", form[1])
	}
}

// complete returns the completions of the flags.
func (f *selection) complete(cmd *cobra.Command) {
	for flag, words := range map[string][]string{
		"phase": {"Pending", "Syncing", "Progressing", "Healthy", "Degraded", "Failed", "Paused", "Connected", "Disconnected", "Ready", "Stale"},
		"sort":  {"name", "since", "severity", "age", "cluster", "-since"},
	} {
		// The error is that the flag does not exist, which bind has defined.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// isEmpty reports whether nothing is selected and ordered.
func (f *selection) isEmpty() bool {
	for _, value := range f.fields {
		if *value != "" {
			return false
		}
	}
	return f.filter == "" && f.labels == "" && f.clusterLabels == "" && f.order == ""
}

// expression returns the one filter that all flags together mean. The text of --filter comes first, so
// that positions in errors count in it.
func (f *selection) expression() (string, error) {
	terms := []string{f.filter}
	for _, labels := range [][3]string{{"label.", f.labels, "selector"}, {"cluster.label.", f.clusterLabels, "cluster-label"}} {
		text, err := filter.OfSelector(labels[0], labels[1])
		if err != nil {
			return "", failure.Usage("--%s: %s", labels[2], err)
		}
		terms = append(terms, text)
	}
	for _, form := range shortForms() {
		if value := *f.fields[form[0]]; value != "" {
			if strings.ContainsAny(value, " \t\n") {
				return "", failure.Usage("--%s: got %q, want values separated by commas", form[0], value)
			}
			terms = append(terms, form[0]+"="+value)
		}
	}
	var parts []string
	for _, term := range terms {
		if term != "" {
			parts = append(parts, term)
		}
	}
	return strings.Join(parts, " "), nil
}

// query returns what the hub is asked for.
func (g *get) query() (*fleetv1.FleetQuery, error) {
	text, err := g.selection.expression()
	return &fleetv1.FleetQuery{Kind: g.target.kind, Filter: text, Project: g.project(), Order: g.selection.order, Size: client.MaxWindow}, err
}

// oneCommit is a value of --commit that names one commit, or begins it.
var oneCommit = regexp.MustCompile(`^(sha256:)?[0-9a-f]{4,64}$`)

// printArrival prints how long the commit of --commit took to arrive at the listed services. That goes to the standard
// error, because it is not a row.
func (g *get) printArrival(ctx context.Context, c *client.Client) error {
	commit := *g.selection.fields["commit"]
	if !oneCommit.MatchString(commit) || g.target.kind != "Service" {
		return nil
	}
	query, err := g.query()
	if err != nil {
		return err
	}
	arrival, err := c.Arrival(ctx, query, commit)
	if err != nil {
		return err
	}
	_, err = io.WriteString(g.session.Err, show.Arrival(arrival))
	return err
}

// followQuery prints what a filter selects and then every change of it, as follow does.
func (g *get) followQuery(ctx context.Context, c *client.Client) error {
	query, err := g.query()
	if err != nil {
		return err
	}
	rows := g.table()
	has := map[string]struct{}{}
	return c.WatchQuery(ctx, query, func(m *fleetv1.WatchQueryResponse) error {
		for _, row := range m.GetRows() {
			if err := g.printChange(rows, &fleetv1.WatchResponse{Document: row.GetDocument()}, row.GetName()); err != nil {
				return err
			}
		}
		if m.GetHasCounts() && m.GetTotal() > client.MaxWindow {
			if _, err := fmt.Fprintf(g.session.Err, "The filter selects %d; the first %d are followed.\n", m.GetTotal(), client.MaxWindow); err != nil {
				return err
			}
		}
		if !m.GetHasWindow() {
			return nil
		}
		now := make(map[string]struct{}, len(m.GetWindow()))
		for _, ref := range m.GetWindow() {
			now[ref] = struct{}{}
			delete(has, ref)
		}
		for ref := range has {
			if _, err := fmt.Fprintf(g.session.Err, "%s/%s is no longer selected\n", strings.ToLower(g.target.kind), ref); err != nil {
				return err
			}
		}
		has = now
		return nil
	})
}
