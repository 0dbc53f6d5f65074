// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/fleetdoc"
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

// List returns all objects of a kind (as document.Kind names it) by name. Of clusters, repositories,
// services, sets of configuration, notifiers and rollout policies it returns those of the project, or all for "".
func (c *Client) List(ctx context.Context, kind, project string) ([]*fleetv1.Document, error) {
	switch kind {
	case "Cluster":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListClustersResponse, error) {
			return c.ListClusters(ctx, &fleetv1.ListClustersRequest{Page: page, Project: project})
		}, (*fleetv1.ListClustersResponse).GetClusters))
	case "Repository":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListRepositoriesResponse, error) {
			return c.ListRepositories(ctx, &fleetv1.ListRepositoriesRequest{Page: page, Project: project})
		}, (*fleetv1.ListRepositoriesResponse).GetRepositories))
	case "Service":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListServicesResponse, error) {
			return c.ListServices(ctx, &fleetv1.ListServicesRequest{Page: page, Project: project})
		}, (*fleetv1.ListServicesResponse).GetServices))
	case "User":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListUsersResponse, error) {
			return c.ListUsers(ctx, &fleetv1.ListUsersRequest{Page: page})
		}, (*fleetv1.ListUsersResponse).GetUsers))
	case "AccessBinding":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListAccessBindingsResponse, error) {
			return c.ListAccessBindings(ctx, &fleetv1.ListAccessBindingsRequest{Page: page})
		}, (*fleetv1.ListAccessBindingsResponse).GetAccessBindings))
	case "Project":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListProjectsResponse, error) {
			return c.ListProjects(ctx, &fleetv1.ListProjectsRequest{Page: page})
		}, (*fleetv1.ListProjectsResponse).GetProjects))
	case "IdentityProvider":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListIdentityProvidersResponse, error) {
			return c.ListIdentityProviders(ctx, &fleetv1.ListIdentityProvidersRequest{Page: page})
		}, (*fleetv1.ListIdentityProvidersResponse).GetIdentityProviders))
	case "TrustRule":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListTrustRulesResponse, error) {
			return c.ListTrustRules(ctx, &fleetv1.ListTrustRulesRequest{Page: page})
		}, (*fleetv1.ListTrustRulesResponse).GetTrustRules))
	case "ConfigBackend":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListConfigBackendsResponse, error) {
			return c.ListConfigBackends(ctx, &fleetv1.ListConfigBackendsRequest{Page: page})
		}, (*fleetv1.ListConfigBackendsResponse).GetConfigBackends))
	case "ConfigSet":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListConfigSetsResponse, error) {
			return c.ListConfigSets(ctx, &fleetv1.ListConfigSetsRequest{Page: page, Project: project})
		}, (*fleetv1.ListConfigSetsResponse).GetConfigSets))
	case "Notifier":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListNotifiersResponse, error) {
			return c.ListNotifiers(ctx, &fleetv1.ListNotifiersRequest{Page: page, Project: project})
		}, (*fleetv1.ListNotifiersResponse).GetNotifiers))
	case "GlobalService":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListGlobalServicesResponse, error) {
			return c.ListGlobalServices(ctx, &fleetv1.ListGlobalServicesRequest{Page: page, Project: project})
		}, (*fleetv1.ListGlobalServicesResponse).GetGlobalServices))
	case "RolloutPolicy":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListRolloutPoliciesResponse, error) {
			return c.ListRolloutPolicies(ctx, &fleetv1.ListRolloutPoliciesRequest{Page: page, Project: project})
		}, (*fleetv1.ListRolloutPoliciesResponse).GetRolloutPolicies))
	case "FleetSource":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListFleetSourcesResponse, error) {
			return c.ListFleetSources(ctx, &fleetv1.ListFleetSourcesRequest{Page: page, Project: project})
		}, (*fleetv1.ListFleetSourcesResponse).GetFleetSources))
	case "Role":
		return documents(Pages(func(page *typev1.Page) (*fleetv1.ListRolesResponse, error) {
			return c.ListRoles(ctx, &fleetv1.ListRolesRequest{Page: page})
		}, (*fleetv1.ListRolesResponse).GetRoles))
	default:
		return nil, fmt.Errorf("list %s: this version of leat does not support it", kind)
	}
}

// documents wraps the objects of a listing.
func documents[M proto.Message](objects []M, err error) ([]*fleetv1.Document, error) {
	var all []*fleetv1.Document
	for _, object := range objects {
		all = append(all, fleetdoc.Of(object))
	}
	return all, err
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

// Get returns one object.
func (c *Client) Get(ctx context.Context, kind, name string) (*fleetv1.Document, error) {
	switch kind {
	case "Cluster":
		response, err := c.GetCluster(ctx, &fleetv1.GetClusterRequest{Name: name})
		return fleetdoc.Of(response.GetCluster()), err
	case "Repository":
		response, err := c.GetRepository(ctx, &fleetv1.GetRepositoryRequest{Name: name})
		return fleetdoc.Of(response.GetRepository()), err
	case "Service":
		response, err := c.GetService(ctx, &fleetv1.GetServiceRequest{Name: name})
		return fleetdoc.Of(response.GetService()), err
	case "User":
		response, err := c.GetUser(ctx, &fleetv1.GetUserRequest{Name: name})
		return fleetdoc.Of(response.GetUser()), err
	case "AccessBinding":
		response, err := c.GetAccessBinding(ctx, &fleetv1.GetAccessBindingRequest{Name: name})
		return fleetdoc.Of(response.GetAccessBinding()), err
	case "Project":
		response, err := c.GetProject(ctx, &fleetv1.GetProjectRequest{Name: name})
		return fleetdoc.Of(response.GetProject()), err
	case "IdentityProvider":
		response, err := c.GetIdentityProvider(ctx, &fleetv1.GetIdentityProviderRequest{Name: name})
		return fleetdoc.Of(response.GetIdentityProvider()), err
	case "TrustRule":
		response, err := c.GetTrustRule(ctx, &fleetv1.GetTrustRuleRequest{Name: name})
		return fleetdoc.Of(response.GetTrustRule()), err
	case "ConfigBackend":
		response, err := c.GetConfigBackend(ctx, &fleetv1.GetConfigBackendRequest{Name: name})
		return fleetdoc.Of(response.GetConfigBackend()), err
	case "ConfigSet":
		response, err := c.GetConfigSet(ctx, &fleetv1.GetConfigSetRequest{Name: name})
		return fleetdoc.Of(response.GetConfigSet()), err
	case "Notifier":
		response, err := c.GetNotifier(ctx, &fleetv1.GetNotifierRequest{Name: name})
		return fleetdoc.Of(response.GetNotifier()), err
	case "GlobalService":
		response, err := c.GetGlobalService(ctx, &fleetv1.GetGlobalServiceRequest{Name: name})
		return fleetdoc.Of(response.GetGlobalService()), err
	case "RolloutPolicy":
		response, err := c.GetRolloutPolicy(ctx, &fleetv1.GetRolloutPolicyRequest{Name: name})
		return fleetdoc.Of(response.GetRolloutPolicy()), err
	case "FleetSource":
		response, err := c.GetFleetSource(ctx, &fleetv1.GetFleetSourceRequest{Name: name})
		return fleetdoc.Of(response.GetFleetSource()), err
	case "Role":
		response, err := c.GetRole(ctx, &fleetv1.GetRoleRequest{Name: name})
		return fleetdoc.Of(response.GetRole()), err
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
	case "Project":
		_, err = c.DeleteProject(ctx, &fleetv1.DeleteProjectRequest{Name: name})
	case "IdentityProvider":
		_, err = c.DeleteIdentityProvider(ctx, &fleetv1.DeleteIdentityProviderRequest{Name: name})
	case "TrustRule":
		_, err = c.DeleteTrustRule(ctx, &fleetv1.DeleteTrustRuleRequest{Name: name})
	case "ConfigBackend":
		_, err = c.DeleteConfigBackend(ctx, &fleetv1.DeleteConfigBackendRequest{Name: name})
	case "ConfigSet":
		_, err = c.DeleteConfigSet(ctx, &fleetv1.DeleteConfigSetRequest{Name: name})
	case "Notifier":
		_, err = c.DeleteNotifier(ctx, &fleetv1.DeleteNotifierRequest{Name: name})
	case "GlobalService":
		_, err = c.DeleteGlobalService(ctx, &fleetv1.DeleteGlobalServiceRequest{Name: name})
	case "RolloutPolicy":
		_, err = c.DeleteRolloutPolicy(ctx, &fleetv1.DeleteRolloutPolicyRequest{Name: name})
	case "FleetSource":
		_, err = c.DeleteFleetSource(ctx, &fleetv1.DeleteFleetSourceRequest{Name: name})
	case "Role":
		_, err = c.DeleteRole(ctx, &fleetv1.DeleteRoleRequest{Name: name})
	default:
		err = fmt.Errorf("delete %s: this version of leat does not support it", kind)
	}
	return err
}
