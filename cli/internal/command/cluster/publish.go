// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/clusterprofile"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeclient"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// lookEvery is how often --follow compares everything, beside what the hub tells.
	lookEvery = 5 * time.Minute
	// attempts are made of a call without --follow.
	attempts = 3
	// crdURL is where the definition of ClusterProfiles is.
	crdURL = "https://github.com/kubernetes-sigs/cluster-inventory-api/tree/main/config/crd/bases"
)

// publishFlags select what is published, and where.
type publishFlags struct {
	namespace, manager      string
	kubeconfig, kubeContext string
	selector, format        string
	follow, allowRemovals   bool
}

func publish(s *session.Session) *cobra.Command {
	f := publishFlags{}
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish the clusters as ClusterProfiles, for Argo CD and other tools",
		Long: `Make a ClusterProfile of the Cluster Inventory API for each cluster that you see, in a namespace of the cluster that kubectl is set to, or
in which leat runs as a pod. Tools that read profiles, such as Argo CD, Kueue and Headlamp, reach each cluster through the hub's tunnel, by the access
provider "leat": they run leat token --exec-credential for a token, and need no other credential.

A profile has the cluster's labels, its version of Kubernetes, and whether its agent is connected. Profiles of clusters that are gone are
deleted; those of other cluster managers stay. With --follow, leat goes on until it is interrupted.`,
		Example: `  leat cluster publish --namespace fleet
  leat cluster publish --namespace fleet --selector stage=prod --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Fail(f.run(cmd.Context(), s)) },
	}
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "where profiles are made (default: the one that kubectl or the pod is in)")
	cmd.Flags().StringVar(&f.manager, "manager", "leat", "name of this fleet among cluster managers; it cannot be changed in a profile")
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only clusters with these labels, as in kubectl")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "reach the cluster with the profiles by this kubeconfig")
	cmd.Flags().StringVar(&f.kubeContext, "kube-context", "", "reach the cluster with the profiles by this context of your kubeconfig")
	cmd.Flags().BoolVar(&f.follow, "follow", false, "keep the profiles as the clusters are")
	cmd.Flags().BoolVar(&f.allowRemovals, "allow-removals", false, "delete more than half of the profiles, if so many clusters are gone")
	cmd.Flags().StringVarP(&f.format, "output", "o", "text", "text or json, a line for each look")
	return cmd
}

// publisher keeps ClusterProfiles as the clusters of the fleet are. One goroutine uses it.
type publisher struct {
	publishFlags

	session  *session.Session
	hub      *client.Client
	store    *clusterprofile.Store
	params   clusterprofile.Params
	selected labels.Selector
	known    map[string]*clusterprofile.Profile // as they were found or made last
	looked   time.Time
}

func (f publishFlags) run(ctx context.Context, s *session.Session) error {
	p, err := f.open(ctx, s)
	if err != nil {
		return err
	}
	if err := p.look(ctx); err != nil || !f.follow {
		return err
	}
	err = p.hub.Follow(ctx, &fleetv1.WatchRequest{Kind: "Cluster"}, func(m *fleetv1.WatchResponse) error { return p.see(ctx, m) })
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (f publishFlags) open(ctx context.Context, s *session.Session) (*publisher, error) {
	if f.format != "text" && f.format != "json" {
		return nil, failure.Usage("there is no output form %q, want text or json", f.format)
	}
	selected, err := labels.Parse(f.selector)
	if err != nil {
		return nil, failure.Usage("--selector: %v", err)
	}
	if wrong := validation.IsValidLabelValue(f.manager); f.manager == "" || len(wrong) > 0 {
		return nil, failure.Usage("--manager %q cannot be the value of a label", f.manager)
	}
	config, namespace, err := kubeclient.Load(f.kubeconfig, f.kubeContext)
	if err != nil {
		return nil, err
	}
	f.namespace = cmp.Or(f.namespace, namespace)
	p := &publisher{publishFlags: f, session: s, selected: selected}
	if p.store, err = clusterprofile.NewStore(config, f.namespace); err != nil {
		return nil, err
	}
	if p.hub, err = s.Client(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	p.params = clusterprofile.Params{Manager: f.manager, CAPEM: p.hub.CAPEM()}
	p.params.TunnelURL, err = s.TunnelURL(ctx, p.hub)
	return p, err
}

// see takes a message of the hub about clusters.
func (p *publisher) see(ctx context.Context, m *fleetv1.WatchResponse) error {
	cluster := m.GetDocument().GetCluster()
	if cluster == nil {
		if time.Since(p.looked) < lookEvery {
			return nil
		}
		return p.look(ctx)
	}
	profile, isWanted := p.of(cluster)
	if m.GetDeleted() || !isWanted {
		if name, _ := objectname.HostLabel(objectname.Join(cluster.GetMetadata().GetProject(), cluster.GetMetadata().GetName())); p.known[name] == nil {
			return nil
		}
		return p.look(ctx)
	}
	found := p.known[profile.Name]
	if found == nil {
		return p.carryOut(ctx, p.params.Compare(nil, []*clusterprofile.Profile{profile}, time.Now()))
	}
	change := p.params.Compare([]*clusterprofile.Profile{found}, []*clusterprofile.Profile{profile}, time.Now())
	if change.Foreign = nil; len(change.Apply) == 0 { // the last look has told of a foreign one
		return nil
	}
	return p.carryOut(ctx, change)
}

// of returns the profile of a cluster. ok is false if it is to have none.
func (p *publisher) of(cluster *fleetv1.Cluster) (_ *clusterprofile.Profile, ok bool) {
	if !p.selected.Matches(labels.Set(cluster.GetMetadata().GetLabels())) {
		return nil, false
	}
	return p.params.Of(cluster)
}

// look compares all clusters with all profiles. Nothing is changed where one of both cannot be read.
func (p *publisher) look(ctx context.Context) error {
	var documents []*fleetv1.Document
	if err := p.patiently(ctx, func(ctx context.Context) (err error) {
		documents, err = p.hub.All(ctx, "Cluster", "")
		return err
	}); err != nil {
		return err
	}
	var wanted []*clusterprofile.Profile
	for _, document := range documents {
		if profile, ok := p.of(document.GetCluster()); ok {
			wanted = append(wanted, profile)
		}
	}
	var existing []*clusterprofile.Profile
	if err := p.patiently(ctx, func(ctx context.Context) (err error) {
		existing, err = p.store.List(ctx)
		return err
	}); err != nil {
		return err
	}
	p.known = map[string]*clusterprofile.Profile{}
	for _, profile := range existing {
		p.known[profile.Name] = profile
	}
	p.looked = time.Now()
	return p.carryOut(ctx, p.params.Compare(existing, wanted, p.looked))
}

// carryOut makes a change, and prints what it has changed.
func (p *publisher) carryOut(ctx context.Context, change clusterprofile.Change) error {
	result := published{Applied: []string{}, Removed: []string{}, Foreign: change.Foreign}
	for _, profile := range change.Apply {
		if err := p.patiently(ctx, func(ctx context.Context) (err error) {
			p.known[profile.Name], err = p.store.Apply(ctx, profile)
			return err
		}); err != nil {
			return err
		}
		result.Applied = append(result.Applied, profile.Name)
	}
	if err := change.Guard(); err != nil && !p.allowRemovals {
		return errors.Join(p.print(result), p.refuse(err))
	}
	for _, profile := range change.Remove {
		if err := p.patiently(ctx, func(ctx context.Context) error { return p.store.Remove(ctx, profile) }); err != nil {
			return err
		}
		delete(p.known, profile.Name)
		result.Removed = append(result.Removed, profile.Name)
	}
	return p.print(result)
}

// refuse is what happens instead of removals that look like a mistake. With --follow the others are still kept.
func (p *publisher) refuse(err error) error {
	const advice = "None of them was deleted, and the others are as their clusters are. If these clusters are gone, run it once with " +
		"--allow-removals; otherwise look whether you have lost a binding."
	if !p.follow {
		return failure.New(err.Error(), advice)
	}
	_, err = fmt.Fprintf(p.session.Err, "Warning: %v. %s\n", err, advice)
	return err
}

// published is what a look has changed, by the names of profiles.
type published struct {
	Applied []string `json:"applied"`
	Removed []string `json:"removed"`
	Foreign []string `json:"foreign,omitempty"` // left to another cluster manager
}

func (p *publisher) print(result published) error {
	if p.format == "json" {
		return json.NewEncoder(p.session.Out).Encode(result)
	}
	for _, done := range []struct {
		word  string
		names []string
	}{{"applied", result.Applied}, {"deleted", result.Removed}} {
		for _, name := range done.names {
			if _, err := fmt.Fprintf(p.session.Out, "clusterprofile/%s %s\n", name, done.word); err != nil {
				return err
			}
		}
	}
	for _, name := range result.Foreign {
		if _, err := fmt.Fprintf(p.session.Err, "Warning: clusterprofile/%s is of another cluster manager, and was left as it is. --namespace names another place.\n", name); err != nil {
			return err
		}
	}
	return nil
}

// patiently makes a call until it is answered; with --follow, for as long as it takes.
func (p *publisher) patiently(ctx context.Context, call func(context.Context) error) error {
	policy := backoff.Default()
	if !p.follow {
		policy.MaxAttempts = attempts
	}
	return explained(backoff.Retry(ctx, policy, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
		defer cancel()
		err := call(ctx)
		if isFinal(err) {
			return backoff.Permanent(err)
		}
		return err
	}), p.namespace)
}

// isFinal reports whether another try of a call gets the same answer of the hub or the API server.
func isFinal(err error) bool {
	if _, isHubs := errors.AsType[*connect.Error](err); isHubs {
		return !client.IsTransient(err)
	}
	_, isKubernetes := errors.AsType[*apierrors.StatusError](err)
	return isKubernetes && !apierrors.IsServerTimeout(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsConflict(err)
}

func explained(err error, namespace string) error {
	status, isKubernetes := errors.AsType[*apierrors.StatusError](err)
	switch {
	case !isKubernetes:
		return err
	case apierrors.IsForbidden(err):
		return failure.New(err.Error(), fmt.Sprintf("Give the account a Role with get, list, create, patch and delete for clusterprofiles, and patch for "+
			"clusterprofiles/status, of multicluster.x-k8s.io in namespace %s.", namespace))
	case apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces":
		return failure.New(fmt.Sprintf("there is no namespace %s", namespace), "Make it with kubectl create namespace, or name another one with --namespace.")
	case apierrors.IsNotFound(err):
		return failure.New("the cluster has no ClusterProfiles", "Install their definition from "+crdURL+".")
	default:
		return err
	}
}
