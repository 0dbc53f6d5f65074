// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// notifierOf refuses unknown fields, because they may narrow the messages.
func notifierOf(m *fleetv1.Notifier) (*catalog.Notifier, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if len(spec.ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	after, err := durationOf("spec.after", spec.GetAfter())
	if err != nil {
		return nil, err
	}
	window, err := durationOf("spec.group_window", spec.GetGroupWindow())
	if err != nil {
		return nil, err
	}
	n := &catalog.Notifier{Metadata: metadata, Spec: catalog.NotifierSpec{
		Description: spec.GetDescription(), Suspended: spec.GetSuspended(), AllProjects: spec.GetAllProjects(),
		Events:   wire.Each(spec.GetEvents(), func(kind string) notice.Kind { return notice.Kind(kind) }),
		Projects: spec.GetProjects(), Services: spec.GetServices(), ClusterLabels: spec.GetClusterLabels(), After: after, GroupWindow: window,
		MaxPerMinute: spec.GetMaxPerMinute(), Text: spec.GetText(), CAPEM: spec.GetCaPem(),
	}}
	return n, setSink(&n.Spec, spec, objectname.Project(metadata.Name))
}

func setSink(s *catalog.NotifierSpec, spec *fleetv1.NotifierSpec, project string) error {
	switch sink := spec.GetSink().(type) {
	case *fleetv1.NotifierSpec_Slack:
		s.Sink.Type, s.Secrets.URL = catalog.SinkSlack, secret.Text(sink.Slack.GetUrl())
	case *fleetv1.NotifierSpec_Webhook:
		s.Sink.Type = catalog.SinkWebhook
		s.Secrets.URL, s.Secrets.HMACKey = secret.Text(sink.Webhook.GetUrl()), secret.Text(sink.Webhook.GetHmacKey())
		s.RemoveHMACKey = sink.Webhook != nil && sink.Webhook.HmacKey != nil && sink.Webhook.GetHmacKey() == ""
	case *fleetv1.NotifierSpec_CommitStatus:
		c := sink.CommitStatus
		repositories, err := parseNames("spec.commit_status.repositories", c.GetRepositories(), project)
		if err != nil {
			return err
		}
		s.Sink.Type, s.Secrets.Token = catalog.SinkCommitStatus, secret.Text(c.GetToken())
		s.Sink.Commit = &catalog.CommitSink{Provider: c.GetProvider(), URL: c.GetUrl(), Repositories: repositories, Context: c.GetContext()}
	case *fleetv1.NotifierSpec_Email:
		e := sink.Email
		s.Sink.Type, s.Secrets.Password = catalog.SinkEmail, secret.Text(e.GetPassword())
		s.Sink.Email = &catalog.EmailSink{Server: e.GetServer(), Security: e.GetSecurity(), Username: e.GetUsername(), From: e.GetFrom(), To: e.GetTo()}
	}
	return nil
}

// notifierMessage never carries a secret.
func notifierMessage(n *catalog.Notifier) *fleetv1.Notifier {
	s := n.Spec
	m := &fleetv1.Notifier{
		Metadata: MetadataMessage(&n.Metadata),
		Spec: &fleetv1.NotifierSpec{
			Description: s.Description, Suspended: s.Suspended, AllProjects: s.AllProjects,
			Events:   wire.Each(s.Events, func(kind notice.Kind) string { return string(kind) }),
			Projects: s.Projects, Services: s.Services, ClusterLabels: s.ClusterLabels, MaxPerMinute: s.MaxPerMinute, Text: s.Text, CaPem: s.CAPEM,
		},
		Status: &fleetv1.NotifierStatus{Target: s.Sink.Shown()},
	}
	if s.After != 0 {
		m.Spec.After = durationpb.New(s.After)
	}
	if s.GroupWindow != 0 {
		m.Spec.GroupWindow = durationpb.New(s.GroupWindow)
	}
	switch s.Sink.Type {
	case catalog.SinkSlack:
		m.Spec.Sink = &fleetv1.NotifierSpec_Slack{Slack: &fleetv1.SlackSink{}}
	case catalog.SinkWebhook:
		m.Spec.Sink = &fleetv1.NotifierSpec_Webhook{Webhook: &fleetv1.WebhookSink{}}
	case catalog.SinkCommitStatus:
		c := s.Sink.Commit
		m.Spec.Sink = &fleetv1.NotifierSpec_CommitStatus{CommitStatus: &fleetv1.CommitStatusSink{
			Provider: c.Provider, Url: c.URL, Repositories: FormatNames(c.Repositories, objectname.Project(n.Name)), Context: c.Context,
		}}
	case catalog.SinkEmail:
		e := s.Sink.Email
		m.Spec.Sink = &fleetv1.NotifierSpec_Email{Email: &fleetv1.EmailSink{
			Server: e.Server, Security: e.Security, Username: e.Username, From: e.From, To: e.To,
		}}
	}
	return m
}
