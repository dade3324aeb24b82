def discounted(price, percent):
    return price * percent / 100


print(discounted(50, 20))
