// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/gitref"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// diffTimeout bounds a comparison: a fetch, a download, and a request for each object.
const diffTimeout = 2 * time.Minute

// Diff is `leat diff`.
func Diff(s *session.Session) *cobra.Command {
	d := differ{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "diff service/NAME",
		Short: "Show what a run of a service would change in its cluster",
		Long: `Show what the next run of a service would change in its cluster, or, with --ref, what it would change if the service
followed that branch, tag or commit. The cluster's API server is asked, and nothing is kept. The values of Secrets, and of
the service's secrets, are masked. It needs the role operator in the cluster, and --ref an administrator.

Before the difference of an object are its fields that others manage, with the manager, and whether the run takes the field;
and the fields that differ and are ignored, with the rule. As JSON each field of an object has its managers.

With --ref the cluster's agent may download what the repository holds there for 15 minutes. A repository that demands
signatures demands them here, too. Hooks are not shown.`,
		Example: `  leat diff service/shop
  leat diff service/shop --ref feature/basket
  leat diff service/shop --ref tag:v1.4.0 --exit-code`,
		Args:              oneService,
		ValidArgsFunction: completeServices(s),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if d.name, err = parseService(s, args[0]); err != nil {
				return err
			}
			return s.Fail(d.run(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&d.ref, "ref", "", "what to compare with instead of what the service follows: "+gitref.Usage)
	cmd.Flags().StringVar(&d.repository, "repository", "", "the repository of --ref, for a service with several")
	cmd.Flags().VarP(&d.format, "output", "o", "how to print it")
	cmd.Flags().BoolVar(&d.exitCode, "exit-code", false, "exit with 1 if anything would change")
	return cmd
}

type differ struct {
	session         *session.Session
	name            string
	ref, repository string
	format          show.Format
	exitCode        bool
}

func (d *differ) run(ctx context.Context) error {
	if d.repository != "" && d.ref == "" {
		return failure.Usage("--repository needs --ref")
	}
	c, err := d.session.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, diffTimeout)
	defer cancel()
	service, err := getService(ctx, c, d.name)
	if err != nil {
		return err
	}
	bundles, err := d.candidate(ctx, c)
	if err != nil {
		return err
	}
	agent, name, err := d.session.AgentOf(ctx, service)
	if err != nil {
		return err
	}
	response, err := agent.Diff(ctx, &agentv1.DiffRequest{Service: name, Bundles: bundles})
	if err != nil {
		return err
	}
	if err := d.print(response.GetObjects(), response.GetUnchanged()); err != nil {
		return err
	}
	if d.exitCode && len(response.GetObjects()) > 0 {
		return failure.Silent(failure.ExitFailed)
	}
	return nil
}

// candidate returns what the service is compared with. A nil candidate is the current plan.
func (d *differ) candidate(ctx context.Context, c *client.Client) ([]*distributorv1.PlanBundle, error) {
	if d.ref == "" {
		return nil, nil
	}
	response, err := c.PreviewService(ctx, &fleetv1.PreviewServiceRequest{Name: d.name, Ref: gitref.Parse(d.ref), Repository: d.repository})
	if err != nil && rpcerr.Metadata(err)[rpcerr.MetadataField] == "repository" {
		return nil, failure.Usage("--%s", rpcerr.Message(err))
	}
	if err != nil {
		return nil, err
	}
	bundles := response.GetService().GetBundles()
	var commits, versions []string
	for _, b := range bundles {
		commits, versions = append(commits, b.GetCommit()), append(versions, b.GetVersion())
	}
	_, err = fmt.Fprintf(d.session.Err, "%s is at commit %s.\n", d.ref, delivery.Quote(commits, versions))
	return bundles, err
}

// print prints what would change. Unchanged objects differ in what is ignored, which people look for; programs get what
// would change alone.
func (d *differ) print(objects, unchanged []*agentv1.ObjectDiff) error {
	switch d.format {
	case show.JSON:
		return document.WriteJSONItems(d.session.Out, objects)
	case show.YAML:
		return document.WriteYAMLItems(d.session.Out, objects)
	case show.Table:
	}
	if err := show.Differences(d.session.Out, d.session.Style(d.session.Out), slices.Concat(objects, unchanged)); err != nil {
		return err
	}
	_, err := fmt.Fprintln(d.session.Out, d.summary(objects))
	return err
}

// summary counts what would be done.
func (d *differ) summary(objects []*agentv1.ObjectDiff) string {
	if len(objects) == 0 {
		return fmt.Sprintf("service/%s: nothing would change", d.name)
	}
	var parts []string
	for _, part := range []struct {
		action agentv1.DiffAction
		word   string
	}{
		{agentv1.DiffAction_DIFF_ACTION_CREATE, "created"},
		{agentv1.DiffAction_DIFF_ACTION_UPDATE, "changed"},
		{agentv1.DiffAction_DIFF_ACTION_DELETE, "deleted"},
		{agentv1.DiffAction_DIFF_ACTION_REFUSE, "refused"},
	} {
		count := 0
		for _, object := range objects {
			if object.GetAction() == part.action {
				count++
			}
		}
		if count > 0 {
			parts = append(parts, fmt.Sprint(count, " ", part.word))
		}
	}
	return fmt.Sprintf("service/%s: %s", d.name, strings.Join(parts, ", "))
}
