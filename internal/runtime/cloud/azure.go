// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"net/url"
	"strings"
)

const azureAdviceEnd = "'s pods with azure.workload.identity/use: \"true\" and annotate its service account with " +
	"azure.workload.identity/client-id"

// EntraToken trades the pod's token for one of Entra ID that is good for a scope, such as
// https://vault.azure.net/.default
// (https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow). An empty
// tenant or client means the environment's.
func (i *Identity) EntraToken(ctx context.Context, tenant, client, scope string) (Token, error) {
	config, advice := i.params.Config, "label "+i.params.Caller+azureAdviceEnd
	if client == "" {
		client = config.AzureClient
	}
	if tenant == "" {
		tenant = config.AzureTenant
	}
	switch {
	case client == "":
		return Token{}, missing("AZURE_CLIENT_ID", "%s has no client id at Azure: AZURE_CLIENT_ID is not set; %s.", i.params.Caller, advice)
	case tenant == "":
		return Token{}, missing("AZURE_TENANT_ID", "%s knows no tenant of Azure: AZURE_TENANT_ID is not set; %s.", i.params.Caller, advice)
	}
	token, err := i.readToken(config.AzureTokenFile, "AZURE_FEDERATED_TOKEN_FILE", advice)
	if err != nil {
		return Token{}, err
	}
	c := i.Call("Microsoft Entra ID", "give the application "+client+" a federated credential for "+i.params.Caller+"'s service account", token)
	var answer granted
	to := strings.TrimSuffix(config.AzureAuthorityURL, "/") + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token"
	err = c.PostForm(ctx, to, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {client}, "scope": {scope},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token},
	}, &answer)
	if err != nil {
		return Token{}, err
	}
	at, _ := url.Parse(to)
	return i.token(c, at, answer)
}
