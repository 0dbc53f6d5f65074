// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// whoCan is `leat access who-can`.
func whoCan(s *session.Session) *cobra.Command {
	w := holders{session: s, format: show.Table, now: time.Now}
	cmd := &cobra.Command{
		Use:   "who-can VERB RESOURCE --cluster CLUSTER",
		Short: "Show who can send a request to a cluster, or could at some time, and by which bindings",
		Long: `Show every person and group that can send a request to a cluster through the hub, and the binding that allows it. With --at, who could
at that time, or on that day: the answer follows from the record of changes, and the hub refuses it if the records do not reach back
that far. Only people who may read the record of changes may ask.

FROM and UNTIL are empty where the right began before that time, and where it lasted beyond it. A group is listed as a whole, for
everybody whom an identity provider puts into it, and with the users of the hub in it and the people who had signed in with it.
The cluster's own RBAC decided what the groups in the last column were allowed to do there; the hub does not know it.`,
		Example: `  leat access who-can delete pods --cluster berlin
  leat access who-can delete pods --cluster berlin --at 2026-11-20
  leat access who-can create pods/exec --cluster berlin -n shop --at 2026-11-20T14:00:00Z -o json`,
		Args: w.args,
		RunE: s.Calling(w.run),
	}
	flags := cmd.Flags()
	flags.StringVar(&w.cluster, "cluster", "", "the cluster; it need not exist any more")
	flags.StringVarP(&w.namespace, "namespace", "n", "", "the request's namespace (default: all, or none)")
	flags.StringVar(&w.at, "at", "", "a day, a time, or a span before now such as 30d (default: now)")
	flags.VarP(&w.format, "output", "o", "how to print it")
	return cmd
}

type holders struct {
	session                *session.Session
	format                 show.Format
	cluster, namespace, at string
	request                fleetv1.ListAccessHoldersRequest
	now                    func() time.Time
}

func (w *holders) args(_ *cobra.Command, args []string) (err error) {
	if len(args) != 2 {
		return errors.New("want VERB RESOURCE, such as delete pods")
	}
	if w.cluster == "" {
		return failure.Usage("--cluster is required")
	}
	w.request.Cluster = w.session.Reference("Cluster", w.cluster)
	// An API server takes any verb, so an unknown one is no error.
	if verbs := kubernetesVerbs(); !slices.Contains(verbs, args[0]) {
		if _, err := fmt.Fprintf(w.session.Err, "Warning: Kubernetes itself has no verb %q%s\n", args[0], document.Suggest(args[0], verbs)); err != nil {
			return err
		}
	}
	w.request.Attributes = attributes(args[0], args[1], w.namespace)
	w.request.Since, w.request.Until, err = span("--at", w.at, w.now())
	return err
}

// kubernetesVerbs are the verbs that Kubernetes itself has.
func kubernetesVerbs() []string {
	return []string{
		"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "head", "options", "post", "put",
		"use", "bind", "escalate", "impersonate", "approve", "sign", "attest", "*",
	}
}

// span returns the beginning and the end of a day, or a time as both. Empty: neither.
func span(flag, text string, now time.Time) (since, until *timestamppb.Timestamp, err error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return timestamppb.New(day), timestamppb.New(day.AddDate(0, 0, 1)), nil
	}
	at, err := parseTime(flag, text, now)
	return at, at, err
}

func (w *holders) run(ctx context.Context, c *client.Client, _ []string) error {
	res, err := c.ListAccessHolders(ctx, &w.request)
	if err != nil {
		return err
	}
	if err := show.AccessHolders(w.session.Out, w.format, w.session.Style(w.session.Out), res); err != nil {
		return err
	}
	for _, gap := range res.GetGaps() {
		if _, err := fmt.Fprintf(w.session.Err, "The answer may lack something: %s.\n", gap); err != nil {
			return err
		}
	}
	return nil
}

// attributes parses a resource like kubectl: deployments.apps, with the subresource after a slash,
// or a path.
func attributes(verb, resource, namespace string) *fleetv1.AccessAttributes {
	if strings.HasPrefix(resource, "/") {
		return &fleetv1.AccessAttributes{Verb: verb, NonResourcePath: resource, Namespace: namespace}
	}
	name, subresource, has := strings.Cut(resource, "/")
	name, group, _ := strings.Cut(name, ".")
	if has {
		name += "/" + subresource
	}
	return &fleetv1.AccessAttributes{Verb: verb, ApiGroup: group, Resource: name, Namespace: namespace}
}
