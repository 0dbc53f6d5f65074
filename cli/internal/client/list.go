// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/leatdev/leat/cli/internal/document"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// pageSize is how many objects one call asks for.
const pageSize = 500

// List returns all objects of a kind (as document.Kind names it) by name.
func (c *Client) List(ctx context.Context, kind string) ([]*fleetv1.Document, error) {
	list, err := c.lister(kind)
	if err != nil {
		return nil, err
	}
	var all []*fleetv1.Document
	page := &typev1.Page{Size: pageSize}
	for {
		found, next, err := list(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if next == "" {
			return all, nil
		}
		page.Token = next
	}
}

type lister func(context.Context, *typev1.Page) (objects []*fleetv1.Document, next string, err error)

func (c *Client) lister(kind string) (lister, error) {
	switch kind {
	case "Cluster":
		return c.listClusters, nil
	case "Repository":
		return c.listRepositories, nil
	case "Service":
		return c.listServices, nil
	case "User":
		return c.listUsers, nil
	case "AccessBinding":
		return c.listAccessBindings, nil
	default:
		return nil, fmt.Errorf("list %s: this version of leat does not support it", kind)
	}
}

func (c *Client) listClusters(ctx context.Context, page *typev1.Page) ([]*fleetv1.Document, string, error) {
	response, err := c.ListClusters(ctx, &fleetv1.ListClustersRequest{Page: page})
	if err != nil {
		return nil, "", err
	}
	var objects []*fleetv1.Document
	for _, cluster := range response.GetClusters() {
		objects = append(objects, document.Of(cluster))
	}
	return objects, response.GetNextPageToken(), nil
}

func (c *Client) listRepositories(ctx context.Context, page *typev1.Page) ([]*fleetv1.Document, string, error) {
	response, err := c.ListRepositories(ctx, &fleetv1.ListRepositoriesRequest{Page: page})
	if err != nil {
		return nil, "", err
	}
	var objects []*fleetv1.Document
	for _, repository := range response.GetRepositories() {
		objects = append(objects, document.Of(repository))
	}
	return objects, response.GetNextPageToken(), nil
}

func (c *Client) listServices(ctx context.Context, page *typev1.Page) ([]*fleetv1.Document, string, error) {
	response, err := c.ListServices(ctx, &fleetv1.ListServicesRequest{Page: page})
	if err != nil {
		return nil, "", err
	}
	var objects []*fleetv1.Document
	for _, service := range response.GetServices() {
		objects = append(objects, document.Of(service))
	}
	return objects, response.GetNextPageToken(), nil
}

func (c *Client) listUsers(ctx context.Context, page *typev1.Page) ([]*fleetv1.Document, string, error) {
	response, err := c.ListUsers(ctx, &fleetv1.ListUsersRequest{Page: page})
	if err != nil {
		return nil, "", err
	}
	var objects []*fleetv1.Document
	for _, user := range response.GetUsers() {
		objects = append(objects, document.Of(user))
	}
	return objects, response.GetNextPageToken(), nil
}

func (c *Client) listAccessBindings(ctx context.Context, page *typev1.Page) ([]*fleetv1.Document, string, error) {
	response, err := c.ListAccessBindings(ctx, &fleetv1.ListAccessBindingsRequest{Page: page})
	if err != nil {
		return nil, "", err
	}
	var objects []*fleetv1.Document
	for _, binding := range response.GetAccessBindings() {
		objects = append(objects, document.Of(binding))
	}
	return objects, response.GetNextPageToken(), nil
}

// Tokens returns the API tokens of a user, or all if the name is empty.
func (c *Client) Tokens(ctx context.Context, user string) ([]*fleetv1.Token, error) {
	var all []*fleetv1.Token
	page := &typev1.Page{Size: pageSize}
	for {
		response, err := c.ListTokens(ctx, &fleetv1.ListTokensRequest{User: user, Page: page})
		if err != nil {
			return nil, err
		}
		all = append(all, response.GetTokens()...)
		if page.Token = response.GetNextPageToken(); page.Token == "" {
			return all, nil
		}
	}
}

// Get returns one object.
func (c *Client) Get(ctx context.Context, kind, name string) (*fleetv1.Document, error) {
	switch kind {
	case "Cluster":
		response, err := c.GetCluster(ctx, &fleetv1.GetClusterRequest{Name: name})
		return document.Of(response.GetCluster()), err
	case "Repository":
		response, err := c.GetRepository(ctx, &fleetv1.GetRepositoryRequest{Name: name})
		return document.Of(response.GetRepository()), err
	case "Service":
		response, err := c.GetService(ctx, &fleetv1.GetServiceRequest{Name: name})
		return document.Of(response.GetService()), err
	case "User":
		response, err := c.GetUser(ctx, &fleetv1.GetUserRequest{Name: name})
		return document.Of(response.GetUser()), err
	case "AccessBinding":
		response, err := c.GetAccessBinding(ctx, &fleetv1.GetAccessBindingRequest{Name: name})
		return document.Of(response.GetAccessBinding()), err
	default:
		return nil, fmt.Errorf("get %s: this version of leat does not support it", kind)
	}
}

// Delete removes one object.
func (c *Client) Delete(ctx context.Context, kind, name string) error {
	var err error
	switch kind {
	case "Cluster":
		_, err = c.DeleteCluster(ctx, &fleetv1.DeleteClusterRequest{Name: name})
	case "Repository":
		_, err = c.DeleteRepository(ctx, &fleetv1.DeleteRepositoryRequest{Name: name})
	case "Service":
		_, err = c.DeleteService(ctx, &fleetv1.DeleteServiceRequest{Name: name})
	case "User":
		_, err = c.DeleteUser(ctx, &fleetv1.DeleteUserRequest{Name: name})
	case "AccessBinding":
		_, err = c.DeleteAccessBinding(ctx, &fleetv1.DeleteAccessBindingRequest{Name: name})
	default:
		err = fmt.Errorf("delete %s: this version of leat does not support it", kind)
	}
	return err
}

// Revisions returns a service's history, the latest revision first.
func (c *Client) Revisions(ctx context.Context, service string) ([]*fleetv1.Revision, error) {
	var all []*fleetv1.Revision
	page := &typev1.Page{}
	for {
		response, err := c.ListRevisions(ctx, &fleetv1.ListRevisionsRequest{Service: service, Page: page})
		if err != nil {
			return nil, err
		}
		all = append(all, response.GetRevisions()...)
		if page.Token = response.GetNextPageToken(); page.Token == "" {
			return all, nil
		}
	}
}
