// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/cloudlogin/sigv4"
)

const (
	awsAdvice = "annotate gitcache's service account with eks.amazonaws.com/role-arn, or associate it with a role of EKS Pod Identity, " +
		"so that its pods have a token"
	awsSession = "leat-gitcache"
	// awsDomain and awsDomainChina end the names of AWS's services in its partitions.
	awsDomain, awsDomainChina = "amazonaws.com", "amazonaws.com.cn"
	awsMessage                = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
)

// exchangeAWS trades the pod's token for temporary keys, and those for a login that every registry of
// the region takes for 12 hours
// (https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html).
func (s *services) exchangeAWS(ctx context.Context, id identity) (login, error) {
	if id.scope == "" {
		return login{}, misconfigured("gitcache does not know the region of the registry; put it into the credential's scope, or set AWS_REGION.")
	}
	keys, err := s.awsKeys(ctx, id)
	if err != nil {
		return login{}, err
	}
	to := s.config.ECRURL
	if to == "" {
		to = "https://api.ecr." + id.scope + "." + domainOf(id.scope)
	}
	body := []byte("{}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(to, "/")+"/", bytes.NewReader(body))
	if err != nil {
		return login{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", awsMessage)
	keys.Sign(req, body, id.scope, "ecr", s.now())
	c := call{
		service: "Amazon ECR", carrier: s.outside, hidden: []string{keys.ID, keys.Secret.Reveal(), keys.Token.Reveal()},
		advice: "give its role the right ecr:GetAuthorizationToken, and those to pull",
	}
	data, _, err := c.do(ctx, req)
	if err != nil {
		return login{}, err
	}
	var answer struct {
		AuthorizationData []struct {
			AuthorizationToken string  `json:"authorizationToken"`
			ExpiresAt          float64 `json:"expiresAt"`
		} `json:"authorizationData"`
	}
	if err := c.decode(to, data, &answer); err != nil {
		return login{}, err
	}
	if len(answer.AuthorizationData) == 0 {
		return login{}, c.unusable(req.URL)
	}
	got := answer.AuthorizationData[0]
	pair, err := base64.StdEncoding.DecodeString(got.AuthorizationToken)
	user, password, ok := strings.Cut(string(pair), ":")
	if err != nil || !ok || !isToken(user) || !isToken(password) {
		return login{}, c.unusable(req.URL)
	}
	return login{
		DockerLogin: upstream.DockerLogin{Username: user, Password: secret.Text(password)}, ends: fromSeconds(got.ExpiresAt),
	}, nil
}

// awsKeys returns temporary keys: of the role that the credential or the environment names, by the
// pod's token, or else those that EKS Pod Identity has for the pod.
func (s *services) awsKeys(ctx context.Context, id identity) (sigv4.Keys, error) {
	if id.principal == "" && s.config.AWSContainerURL != "" {
		return s.podKeys(ctx)
	}
	if id.principal == "" {
		return sigv4.Keys{}, misconfigured("gitcache has no role at AWS: AWS_ROLE_ARN is not set; %s, or put a role into the credential's principal.", awsAdvice)
	}
	token, err := readToken(s.config.AWSTokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE", awsAdvice)
	if err != nil {
		return sigv4.Keys{}, err
	}
	to := s.config.STSURL
	if to == "" {
		to = "https://sts." + id.scope + "." + domainOf(id.scope)
	}
	c := call{
		service: "AWS STS", carrier: s.outside, hidden: []string{token},
		advice: "have the trust policy of the role " + id.principal + " allow sts:AssumeRoleWithWebIdentity for gitcache's service account",
	}
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
	data, err := c.post(ctx, strings.TrimSuffix(to, "/")+"/", url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {id.principal},
		"RoleSessionName": {awsSession}, "WebIdentityToken": {token},
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
	if xml.Unmarshal(data, &answer) != nil || !isToken(answer.ID) || !isToken(answer.Secret) || !isToken(answer.Token) {
		return sigv4.Keys{}, c.unusable(at)
	}
	return sigv4.Keys{ID: answer.ID, Secret: secret.Text(answer.Secret), Token: secret.Text(answer.Token)}, nil
}

// podKeys asks the agent of EKS Pod Identity on the node
// (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html).
func (s *services) podKeys(ctx context.Context) (sigv4.Keys, error) {
	at, err := url.Parse(s.config.AWSContainerURL)
	if err != nil || !isNode(at) {
		return sigv4.Keys{}, misconfigured("AWS_CONTAINER_CREDENTIALS_FULL_URI leads neither to https nor to the node's own address; correct it.")
	}
	token, err := readToken(s.config.AWSContainerTokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", awsAdvice)
	if err != nil {
		return sigv4.Keys{}, err
	}
	c := call{
		service: "EKS Pod Identity", carrier: s.node, hidden: []string{token},
		advice: "associate gitcache's service account with a role, and start its pods again",
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return sigv4.Keys{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Authorization", token)
	data, _, err := c.do(ctx, req)
	if err != nil {
		return sigv4.Keys{}, err
	}
	var answer struct {
		ID     string `json:"AccessKeyId"`
		Secret string `json:"SecretAccessKey"`
		Token  string `json:"Token"`
	}
	if err := c.decode(at.String(), data, &answer); err != nil {
		return sigv4.Keys{}, err
	}
	if !isToken(answer.ID) || !isToken(answer.Secret) || !isToken(answer.Token) {
		return sigv4.Keys{}, c.unusable(at)
	}
	return sigv4.Keys{ID: answer.ID, Secret: secret.Text(answer.Secret), Token: secret.Text(answer.Token)}, nil
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

func domainOf(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return awsDomainChina
	}
	return awsDomain
}

// fromSeconds returns the time that a number of seconds since 1970 stands for.
func fromSeconds(seconds float64) time.Time {
	if math.IsNaN(seconds) || seconds < 0 || seconds > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}
