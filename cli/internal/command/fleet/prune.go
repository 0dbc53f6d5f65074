// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

// Prune is `leat prune`.
func Prune(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune COMMAND",
		Short: "Confirm the removal of many objects",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pruneConfirm(s))
	return cmd
}

func pruneConfirm(s *session.Session) *cobra.Command {
	p := pruning{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "confirm service/NAME|globalservice/NAME",
		Short: "Confirm deletions that the guard holds back",
		Long: `Agree to the deletion of objects that the agent's guard keeps (PRUNE_GUARDED), because they are many, or all objects of the service.

It shows the objects and asks, unless --yes is given. The agreement covers only these objects: if the
manifests change in the meantime and others would be deleted, the guard asks again. Agreeing twice changes nothing.

Of a global service it shows the objects of every cluster that waits, asks once, and agrees for each cluster to what it
has shown. It also agrees to the removal of the service from clusters that are held (REMOVAL_HELD), because what their
agents report no longer meets spec.clusters.when.

Namespaces, CustomResourceDefinitions and PersistentVolumeClaims stay in the cluster anyway, unless the
service's spec.policy.deletion allows their deletion.`,
		Example: `  leat prune confirm service/shop
  leat prune confirm service/shop --yes -o json
  leat prune confirm globalservice/web`,
		Args: oneOf("service/NAME or globalservice/NAME"), ValidArgsFunction: p.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			do, name, err := p.parse(args[0])
			if err != nil {
				return err
			}
			c, err := s.Client()
			if err != nil {
				return s.Fail(err)
			}
			return s.Fail(do(cmd.Context(), c, name))
		},
	}
	cmd.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	cmd.Flags().VarP(&p.format, "output", "o", "how to print the outcome")
	return cmd
}

type pruning struct {
	session *session.Session
	yes     bool
	format  show.Format
}

// complete completes service/NAME and globalservice/NAME.
func (p *pruning) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if strings.HasPrefix(typed, "g") {
		return completeNames(cmd, p.session, "GlobalService", "globalservice/"), cobra.ShellCompDirectiveNoFileComp
	}
	return completeNames(cmd, p.session, "Service", "service/"), cobra.ShellCompDirectiveNoFileComp
}

// parse returns what confirms the object of an argument, and the object's name.
func (p *pruning) parse(text string) (do func(context.Context, *client.Client, string) error, name string, err error) {
	if word, _, found := strings.Cut(text, "/"); found {
		if kind, ok := document.Kind(word); ok && kind == "GlobalService" {
			t, err := parseTarget(p.session, text)
			return p.confirmGlobal, t.name, err
		}
	}
	name, err = parseService(p.session, text)
	return p.confirm, name, err
}

func (p *pruning) confirm(ctx context.Context, c *client.Client, name string) error {
	reading, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	service, err := getService(reading, c, name)
	if err != nil {
		return err
	}
	digest := service.GetStatus().GetReport().GetGuardedSpecDigest()
	switch {
	case digest == "":
		return p.print(service, "keeps nothing that waits for an agreement")
	case service.GetSpec().GetSync().GetPruneConfirmation() == digest:
		return p.print(service, "was agreed to already")
	}
	list := func() error { return p.list(service) }
	if err := p.ask("Delete these objects?", list); err != nil {
		return err
	}
	if service, err = agree(ctx, c, service, digest); err != nil {
		return err
	}
	return p.print(service, "is agreed to")
}

// agree stores the agreement, unless the service has changed since it was read.
func agree(ctx context.Context, c *client.Client, service *fleetv1.Service, digest string) (*fleetv1.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	service = proto.CloneOf(service)
	if service.GetSpec().GetSync() == nil {
		service.Spec.Sync = &fleetv1.SyncOptions{}
	}
	service.Spec.Sync.PruneConfirmation = digest
	response, err := fleetcalls.Update(ctx, c, service)
	return response, err
}

// errDeclined means that the user did not answer yes.
var errDeclined = errors.New("nothing was agreed to")

// ask shows what to agree to, and waits for an answer. Without a terminal only --yes agrees.
func (p *pruning) ask(question string, list func() error) error {
	if p.yes && p.format != show.Table {
		return nil
	}
	if err := list(); err != nil || p.yes {
		return err
	}
	isAgreed, err := p.session.Confirm(question)
	if err == nil && !isAgreed {
		err = failure.New(errDeclined.Error(), "Answer y, or give --yes.")
	}
	return err
}

func (p *pruning) list(service *fleetv1.Service) error {
	report := service.GetStatus().GetReport()
	if _, err := fmt.Fprintf(p.session.Err, "service/%s: %s\n", document.ServiceReference(service), report.GetProblem().GetMessage()); err != nil {
		return err
	}
	for _, ref := range report.GetGuarded() {
		if _, err := fmt.Fprintf(p.session.Err, "  %s\n", spell(ref)); err != nil {
			return err
		}
	}
	return nil
}

func spell(ref *typev1.ObjectRef) string {
	kind := strings.TrimSuffix(ref.GetKind()+"."+ref.GetGroup(), ".")
	return kind + " " + strings.TrimPrefix(ref.GetNamespace()+"/"+ref.GetName(), "/")
}

func (p *pruning) print(service *fleetv1.Service, what string) error {
	if p.format != show.Table {
		return show.Objects(p.session.Out, p.format, show.Style{}, time.Now(), "", []*fleetv1.Document{fleetdoc.Of(service)})
	}
	subject := "the prune of service/"
	if service.GetStatus().GetReport().GetGuardedSpecDigest() == "" {
		subject = "the guard of service/"
	}
	_, err := fmt.Fprintf(p.session.Out, "%s%s %s\n", subject, document.ServiceReference(service), what)
	return err
}
