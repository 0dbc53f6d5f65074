// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/cloud/sigv4"
)

// awsDomain and awsDomainChina end the names of AWS's services in its partitions.
const awsDomain, awsDomainChina = "amazonaws.com", "amazonaws.com.cn"

// AWSService returns the URL of a service of AWS in a region, such as https://kms.eu-central-1.amazonaws.com.
func AWSService(service, region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "https://" + service + "." + region + "." + awsDomainChina
	}
	return "https://" + service + "." + region + "." + awsDomain
}

func (i *Identity) awsAdvice() string {
	return "annotate " + i.params.Caller + "'s service account with eks.amazonaws.com/role-arn, or associate it with a role of EKS Pod Identity, " +
		"so that its pods have a token"
}

// HasAWS reports whether the environment names a role, or has EKS Pod Identity.
func (c Config) HasAWS() bool {
	return c.AWSRole != "" && c.AWSTokenFile != "" || c.AWSContainerURL != ""
}

// AWSKeys returns temporary keys: of a role, by the pod's token at the STS of a region, or the keys
// that EKS Pod Identity has for the pod. An empty role means the environment's.
func (i *Identity) AWSKeys(ctx context.Context, role, region string) (sigv4.Keys, error) {
	config := i.params.Config
	if role == "" && config.AWSTokenFile != "" {
		role = config.AWSRole
	}
	if role == "" && config.AWSContainerURL != "" {
		return i.podKeys(ctx)
	}
	if role == "" {
		return sigv4.Keys{}, missing("AWS_ROLE_ARN", "%s has no role at AWS: AWS_ROLE_ARN is not set; %s.", i.params.Caller, i.awsAdvice())
	}
	token, err := i.readToken(config.AWSTokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE", i.awsAdvice())
	if err != nil {
		return sigv4.Keys{}, err
	}
	to := config.STSURL
	if to == "" {
		to = AWSService("sts", region)
	}
	c := i.Call("AWS STS", "have the trust policy of the role "+role+" allow sts:AssumeRoleWithWebIdentity for "+i.params.Caller+"'s service account", token)
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
	data, err := c.post(ctx, strings.TrimSuffix(to, "/")+"/", url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {"leat-" + i.params.Prefix}, "WebIdentityToken": {token},
	}, "application/xml")
	if err != nil {
		return sigv4.Keys{}, err
	}
	var answer struct {
		ID     string `xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
		Secret string `xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
		Token  string `xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
	}
	at, _ := url.Parse(to)
	if xml.Unmarshal(data, &answer) != nil {
		return sigv4.Keys{}, c.Unusable(at)
	}
	return awsKeys(c, at, answer.ID, answer.Secret, answer.Token)
}

// podKeys asks the agent of EKS Pod Identity on the node
// (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html).
func (i *Identity) podKeys(ctx context.Context) (sigv4.Keys, error) {
	at, err := url.Parse(i.params.Config.AWSContainerURL)
	if err != nil || !isNode(at) {
		return sigv4.Keys{}, misconfigured("AWS_CONTAINER_CREDENTIALS_FULL_URI leads neither to https nor to the node's own address; correct it.")
	}
	token, err := i.readToken(i.params.Config.AWSContainerTokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", i.awsAdvice())
	if err != nil {
		return sigv4.Keys{}, err
	}
	c := i.atNode("EKS Pod Identity", "associate "+i.params.Caller+"'s service account with a role, and start its pods again", token)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return sigv4.Keys{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Authorization", token)
	data, _, err := c.Do(ctx, req)
	if err != nil {
		return sigv4.Keys{}, err
	}
	var answer struct {
		ID     string `json:"AccessKeyId"`
		Secret string `json:"SecretAccessKey"`
		Token  string `json:"Token"`
	}
	if err := c.Decode(at, data, &answer); err != nil {
		return sigv4.Keys{}, err
	}
	return awsKeys(c, at, answer.ID, answer.Secret, answer.Token)
}

// awsKeys returns what a service gave, if it is keys.
func awsKeys(c Call, from *url.URL, id, key, token string) (sigv4.Keys, error) {
	if !IsToken(id) || !IsToken(key) || !IsToken(token) {
		return sigv4.Keys{}, c.Unusable(from)
	}
	return sigv4.Keys{ID: id, Secret: secret.Text(key), Token: secret.Text(token)}, nil
}

// podIdentityIPv6 is the agent's address on nodes that have IPv6 alone.
var podIdentityIPv6 = netip.MustParseAddr("fd00:ec2::23")

// isNode reports whether a URL is at https, or at an address that is the node's own: no other may
// have the pod's token unencrypted.
func isNode(u *url.URL) bool {
	if u.Scheme == "https" && u.Host != "" && u.User == nil {
		return true
	}
	address, err := netip.ParseAddr(u.Hostname())
	isOwn := err == nil && (address.IsLoopback() || address.IsLinkLocalUnicast() || address == podIdentityIPv6)
	return u.Scheme == "http" && isOwn && u.User == nil
}
