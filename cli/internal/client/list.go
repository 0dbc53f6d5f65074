// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// Pages calls list for one page after the other, and returns the items of all pages. The page belongs
// to Pages: list puts it into its request and nothing else.
func Pages[R interface{ GetNextPageToken() string }, T any](list func(*typev1.Page) (R, error), items func(R) []T) ([]T, error) {
	var all []T
	page := &typev1.Page{}
	for {
		response, err := list(page)
		if err != nil {
			return nil, err
		}
		all = append(all, items(response)...)
		if page.Token = response.GetNextPageToken(); page.Token == "" {
			return all, nil
		}
	}
}

// All returns all objects of a kind (as document.Kind names it) by name. Of kinds that belong to
// projects it returns the objects of the project, or all for "".
func (c *Client) All(ctx context.Context, kind, project string) ([]*fleetv1.Document, error) {
	if !fleetdoc.InProject(kind) {
		project = ""
	}
	return Pages(func(page *typev1.Page) (*fleetv1.ListResponse, error) {
		return c.List(ctx, &fleetv1.ListRequest{Kind: kind, Project: project, Page: page})
	}, (*fleetv1.ListResponse).GetDocuments)
}

// Members returns the clusters that a global service selects, by name.
func (c *Client) Members(ctx context.Context, global string) ([]*fleetv1.GlobalServiceMember, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListGlobalServiceMembersResponse, error) {
		return c.ListGlobalServiceMembers(ctx, &fleetv1.ListGlobalServiceMembersRequest{Name: global, Page: page})
	}, (*fleetv1.ListGlobalServiceMembersResponse).GetMembers)
}

// DeadLetters returns the messages that a notifier has given up, the oldest first.
func (c *Client) DeadLetters(ctx context.Context, notifier string) ([]*fleetv1.DeadLetter, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListDeadLettersResponse, error) {
		return c.ListDeadLetters(ctx, &fleetv1.ListDeadLettersRequest{Name: notifier, Page: page})
	}, (*fleetv1.ListDeadLettersResponse).GetDeadLetters)
}

// FleetSourceDocuments returns what became of each document of a fleet source, problems first.
func (c *Client) FleetSourceDocuments(ctx context.Context, source string) ([]*fleetv1.FleetSourceDocument, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListFleetSourceDocumentsResponse, error) {
		return c.ListFleetSourceDocuments(ctx, &fleetv1.ListFleetSourceDocumentsRequest{Name: source, Page: page})
	}, (*fleetv1.ListFleetSourceDocumentsResponse).GetDocuments)
}

// Tokens returns the API tokens of a user, or all if the name is empty.
func (c *Client) Tokens(ctx context.Context, user string) ([]*fleetv1.Token, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListTokensResponse, error) {
		return c.ListTokens(ctx, &fleetv1.ListTokensRequest{User: user, Page: page})
	}, (*fleetv1.ListTokensResponse).GetTokens)
}

// BootstrapTokens returns the bootstrap tokens that the caller may see.
func (c *Client) BootstrapTokens(ctx context.Context) ([]*fleetv1.BootstrapToken, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListBootstrapTokensResponse, error) {
		return c.ListBootstrapTokens(ctx, &fleetv1.ListBootstrapTokensRequest{Page: page})
	}, (*fleetv1.ListBootstrapTokensResponse).GetTokens)
}

// PeopleSessions returns the sessions of a person, or all that the caller may see if the name is
// empty.
func (c *Client) PeopleSessions(ctx context.Context, person string) ([]*fleetv1.Session, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListSessionsResponse, error) {
		return c.SignIns.ListSessions(ctx, &fleetv1.ListSessionsRequest{Person: person, Page: page})
	}, (*fleetv1.ListSessionsResponse).GetSessions)
}

// Revisions returns a service's history, the latest revision first.
func (c *Client) Revisions(ctx context.Context, service string) ([]*fleetv1.Revision, error) {
	return Pages(func(page *typev1.Page) (*fleetv1.ListRevisionsResponse, error) {
		return c.ListRevisions(ctx, &fleetv1.ListRevisionsRequest{Service: service, Page: page})
	}, (*fleetv1.ListRevisionsResponse).GetRevisions)
}

// One returns one object.
func (c *Client) One(ctx context.Context, kind, name string) (*fleetv1.Document, error) {
	response, err := c.Get(ctx, &fleetv1.GetRequest{Kind: kind, Name: name})
	return response.GetDocument(), err
}

// Remove deletes one object.
func (c *Client) Remove(ctx context.Context, kind, name string) error {
	_, err := c.Delete(ctx, &fleetv1.DeleteRequest{Kind: kind, Name: name})
	return err
}
