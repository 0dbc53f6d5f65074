// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"encoding/base64"
	"log/slog"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	defaultPageSize = 500
	maxPageSize     = 1000
)

// GetServerInfo implements FleetService.
func (s *Service) GetServerInfo(ctx context.Context, _ *fleetv1.GetServerInfoRequest) (*fleetv1.GetServerInfoResponse, error) {
	id, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetServerInfoResponse{
		Version: s.d.Settings.Version, TunnelUrl: s.d.Settings.TunnelURL, Subject: id.Subject(), Groups: id.Groups, UiUrl: s.d.Settings.UIURL, WebhookUrl: s.d.Settings.WebhookURL,
	}, nil
}

// Get implements FleetService.
func (s *Service) Get(ctx context.Context, req *fleetv1.GetRequest) (*fleetv1.GetResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	kind, err := codec.KindOf(req.GetKind())
	if err != nil {
		return nil, wire.Error(err)
	}
	key, err := keyOf(kind, "name", req.GetName())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.find(ctx, c, key)
	if err != nil {
		return nil, err
	}
	documents, err := s.documents(ctx, c, []fleet.Record{c.shown(record)})
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetResponse{Document: documents[0]}, nil
}

// permitted returns an object for which the caller has the call's permission. The object is named by
// the field of the request.
func (s *Service) permitted(ctx context.Context, kind catalog.Kind, field, reference string) (fleet.Record, error) {
	c, record, err := s.seen(ctx, kind, field, reference)
	if err == nil && !c.allows(record.Object) {
		err = wire.Error(c.rights.Denied(c.needs(), record.Object.Key()))
	}
	return record, err
}

// seen returns an object that the caller may see. Any other object does not exist for them, and the
// search for it takes the same course: it looks twice, because another replica may just have stored
// the object or a binding.
func (s *Service) seen(ctx context.Context, kind catalog.Kind, field, reference string) (*caller, fleet.Record, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, fleet.Record{}, err
	}
	key, err := keyOf(kind, field, reference)
	if err != nil {
		return nil, fleet.Record{}, wire.Error(err)
	}
	record, err := s.find(ctx, c, key)
	return c, record, err
}

// find returns the object of a key that the caller may see, or for a service named without its cluster
// the only one of that name.
func (s *Service) find(ctx context.Context, c *caller, key catalog.Key) (fleet.Record, error) {
	var ambiguous error
	record, ok, err := fleet.LookTwice(ctx, s.d.View, func() (fleet.Record, bool) {
		c.rights = s.d.View.Accounts().Rights(c.person)
		one, ok := key, true
		if !isPrecise(key) {
			if one, ok, ambiguous = c.only(key); ambiguous != nil {
				return fleet.Record{}, true
			}
		}
		if !ok {
			return fleet.Record{}, false
		}
		record, ok := s.d.View.Records.Get(one)
		return record, ok && (c.allows(record.Object) || c.sees(record.Object))
	})
	switch {
	case ambiguous != nil:
		return fleet.Record{}, wire.Error(ambiguous)
	case err != nil:
		return fleet.Record{}, wire.Error(err)
	case !ok:
		return fleet.Record{}, wire.NotFound(key)
	}
	return record, nil
}

// repositoriesShown returns the messages of repositories with the present states of their mirrors. The view only
// hears of changes, so that polls that find nothing cost nothing; when the last one was, and when
// the next one is due, is asked of the mirrors' owners here.
func (s *Service) repositoriesShown(ctx context.Context, records []fleet.Record) ([]*fleetv1.Repository, error) {
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Object.Key().Name
	}
	ctx, cancel := context.WithTimeout(ctx, statesTimeout)
	defer cancel()
	states, err := s.d.Mirrors.States(ctx, names)
	if err != nil {
		s.d.Logger.DebugContext(ctx, "showing mirrors as last reported", slog.Any("error", err))
	}
	for i := range records {
		record := &records[i]
		state, ok := states[record.Object.Key().Name]
		if known := record.Mirror; ok && (known == nil || known.Epoch <= state.Epoch) {
			record.Mirror = &state
		}
	}
	return codec.Messages[*fleetv1.Repository](records), nil
}

// List implements FleetService.
func (s *Service) List(ctx context.Context, req *fleetv1.ListRequest) (*fleetv1.ListResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	q, err := selectionOfList(req)
	if err != nil {
		return nil, wire.Error(err)
	}
	q.Keep, q.Within = c.visible(catalog.VerbList), c.scope(catalog.VerbList)
	records, next, err := s.page(q, req.GetPage())
	if err != nil {
		return nil, err
	}
	documents, err := s.documents(ctx, c, wire.Each(records, c.shown))
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListResponse{Documents: documents, NextPageToken: next}, nil
}

// selectionOfList returns what a list selects. The error is a *fielderr.Error.
func selectionOfList(req *fleetv1.ListRequest) (fleet.Query, error) {
	q := fleet.Query{Project: req.GetProject()}
	var err error
	if q.Kind, err = codec.KindOf(req.GetKind()); err != nil {
		return q, err
	}
	switch {
	case q.Project != "" && !q.Kind.InProject():
		return q, fielderr.New("project", "has no meaning for a %s, which belongs to the hub; leave it out", q.Kind)
	case req.GetCluster() != "" && q.Kind != catalog.KindService:
		return q, fielderr.New("cluster", "selects services, and nothing else; leave it out")
	}
	if q.Cluster, err = optionalPath("cluster", req.GetCluster()); err != nil {
		return q, err
	}
	return q, optionalProject(q.Project)
}

// page returns a page of the objects, and the token of the next page, which is the name of this
// one's last object.
func (s *Service) page(q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	var err error
	if q.After, q.Limit, err = pageOf(page); err != nil {
		return nil, "", err
	}
	records, more := s.d.View.Records.List(q)
	if !more {
		return records, "", nil
	}
	return records, pageToken(records[len(records)-1].Object.Key().Name), nil
}

// pageOf returns after which item a page begins, and how many items it holds.
func pageOf(page *typev1.Page) (after string, limit int, err error) {
	text, err := base64.RawURLEncoding.DecodeString(page.GetToken())
	if err != nil {
		return "", 0, rpcerr.Field("page.token", "is not a token that a listing returned")
	}
	if page.GetSize() < 0 {
		return "", 0, rpcerr.Field("page.size", "is negative")
	}
	return string(text), min(cmp.Or(int(page.GetSize()), defaultPageSize), maxPageSize), nil
}

// pageToken returns the token of the page after an item.
func pageToken(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

// keyOf returns the key of the object that a request names in field. Requests belong to no project,
// so a bare name is one of the project default. A service may be named without its cluster: see
// isPrecise.
func keyOf(kind catalog.Kind, field, reference string) (catalog.Key, error) {
	if !kind.InProject() {
		return catalog.Key{Kind: kind, Name: reference}, objectname.ValidateLabel(field, reference)
	}
	if kind == catalog.KindService {
		path, err := objectname.ParseService(field, reference, objectname.Default)
		if err == nil {
			err = objectname.Validate(field, objectname.LocalPath(path))
		}
		return catalog.Key{Kind: kind, Name: path}, err
	}
	path, err := objectname.Parse(field, reference, objectname.Default)
	if err == nil {
		err = objectname.Validate(field, path)
	}
	return catalog.Key{Kind: kind, Name: path}, err
}

// isPrecise reports whether a key names one object. That of a service without its cluster may lead to
// several.
func isPrecise(key catalog.Key) bool {
	_, cluster := objectname.SplitService(key.Name)
	return key.Kind != catalog.KindService || cluster != ""
}

// optionalPath is the path of keyOf for a field that may be empty.
func optionalPath(field, reference string) (string, error) {
	return objectname.Parse(field, reference, objectname.Default)
}

// optionalProject checks a request's filter by project.
func optionalProject(project string) error {
	if project == "" {
		return nil
	}
	return objectname.ValidateLabel("project", project)
}
